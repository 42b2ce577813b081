"""Recordings: a model's answers with what it was asked, in a file that can be played, compared and recorded again.

`format` has the file, `asked` and `normalise` what is compared, `differences` the text of a difference, `file` writes,
`player` and `recorder` are the models, and `names` reads `replay:PATH` and `record:PATH`.
"""
