# %% common
import pandas as pd

table = pd.read_csv("Credit.csv")
# %% 737
print(f"@mean_income[{table['Income'].mean():.2f}] @std_dev_income[{table['Income'].std():.2f}]")
# %% 738
from scipy import stats

p = stats.shapiro(table["Age"]).pvalue
print(f"@is_normal[{'Not Normal' if p < 0.05 else 'Normal'}]")
# %% 739
print(f"@correlation_coefficient[{table['Limit'].corr(table['Balance']):.2f}]")
# %% 740
balance = table["Balance"]
print(f"@outliers[{((balance - balance.mean()).abs() > 3 * balance.std()).sum()}]")
# %% 741
table["ratio"] = (table["Balance"] / table["Limit"]).where(table["Limit"] != 0, 0).round(2)
print(f"@addedfeature[{table.columns[-1]}]")
# %% 743
table["Education"] = table["Education"].fillna(table["Education"].mode()[0])
print(f"@education_mode[{table['Education'].mode()[0]}]")
for name in ("Income", "Balance"):
    low, high = table[name].min(), table[name].max()
    path = f"Credit_{name}_Normalized.csv"
    table.assign(**{name: (table[name] - low) / (high - low)}).to_csv(path, index=False)
    print(f"@{name.lower()}_normalization[{low:.2f}, {high:.2f}, {path}]")
