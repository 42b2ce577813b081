# insurance.csv

# %% common
import pandas as pd

table = pd.read_csv("insurance.csv")

# %% 24
print(f"@mean_age[{table['age'].dropna().mean():.2f}]")
