# %% common
import pandas as pd

table = pd.read_csv("percent-bachelors-degrees-women-usa.csv")
# %% 490
print(f"@mean_value[{table['Engineering'].mean():.2f}]")
# %% 492
last = table.set_index("Year").loc[2010]
print(f"@fields[{', '.join(last.index[last == last.max()])}]")
# %% 495
from scipy import stats

shares = table["Architecture"]
far = abs(stats.zscore(shares)) > 3
print(f"@outlier_years[{', '.join(map(str, table.loc[far, 'Year']))}]")
print(f"@mean_without_outliers[{shares[~far].mean():.2f}]")
print(f"@std_without_outliers[{shares[~far].std():.2f}]")
# %% 496
names = ["Computer Science", "Engineering", "Math and Statistics", "Physical Sciences"]
stem = table.loc[table["Year"] >= 2000, names].sum(axis=1)
print(f"@mean_STEM[{stem.mean():.2f}] @range_STEM[{stem.max() - stem.min():.2f}]")
