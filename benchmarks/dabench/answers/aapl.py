# %% common
import pandas as pd

table = pd.read_csv("e5_aapl.csv")
# %% 578
print(f"@mean_volume[{table['Volume'].mean():.2f}]")
