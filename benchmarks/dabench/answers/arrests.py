# %% common
import pandas as pd

table = pd.read_csv("arrest_expungibility.csv")
# %% 465
from scipy import stats

skewness = stats.skew(table["Age"])
kind = "skewed_right" if skewness > 0.5 else "skewed_left" if skewness < -0.5 else "symmetric"
print(f"@distribution_skew[{kind}]")
# %% 466
r = abs(table["Count"].corr(table["Age"]))
print(f"@correlation_strength[{'strong' if r > 0.6 else 'moderate' if r > 0.3 else 'weak'}]")
# %% 468
ages = table.loc[table["Offense"].str.contains("Assault"), "Age"]
low, high = ages.quantile([0.25, 0.75])
outside = ~ages.between(low - 1.5 * (high - low), high + 1.5 * (high - low))
print(f"@number_of_outliers[{outside.sum()}]")
