# %% 3
import csv
import statistics
from pathlib import Path

rows = list(csv.DictReader(Path("rain.csv").read_text().splitlines()))
r = statistics.correlation([float(row["tonnes"]) for row in rows], [float(row["rain_mm"]) for row in rows])
print(f"@correlation[{r:.2f}] @with_rain[{'yes' if r > 0.5 else 'no'}]")
