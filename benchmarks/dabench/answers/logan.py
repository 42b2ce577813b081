# %% common
import pandas as pd

table = pd.read_csv("Current_Logan.csv")
wins = pd.to_numeric(table["JAMES LOGAN"], errors="coerce").dropna()
# %% 710
print(f"@mean_wins[{wins.mean():.2f}]")
# %% 715
print(f"@missing_percentage[{table['Unnamed: 8'].isna().mean() * 100:.2f}]")
# %% 716
print(f"@mean_wins[{wins.mean():.2f}] @stddev_wins[{wins.std():.2f}]")
