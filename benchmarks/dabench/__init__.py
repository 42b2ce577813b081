"""A public yardstick: the closed-form questions of InfiAgent-DABench, each a notebook that an agent works in."""
