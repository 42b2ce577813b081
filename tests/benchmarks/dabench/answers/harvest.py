# %% common
import csv
import statistics
from pathlib import Path

rows = list(csv.DictReader(Path("harvest.csv").read_text().splitlines()))
tonnes = [float(row["tonnes"]) for row in rows]
# %% 1
print(f"@mean_tonnes[{statistics.mean(tonnes):.2f}]")
# %% 2
best = max(rows, key=lambda row: float(row["tonnes"]) / float(row["hectares"]))
print(f"@best_field[{best['field']}]")
print(f"@best_yield[{float(best['tonnes']) / float(best['hectares']):.2f}]")
