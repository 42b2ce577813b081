# %% common
import pandas as pd

table = pd.read_csv("baro_2015.csv")
table.columns = table.columns.str.strip()
# %% 446
print(f"@mean_windspeed[{table['WINDSPEED'].mean():.3f}]")
# %% 447
values = table["BARO"].dropna()
low, high = values.quantile([0.25, 0.75])
outside = ~values.between(low - 1.5 * (high - low), high + 1.5 * (high - low))
print(f"@number_of_outliers[{outside.sum()}]")
# %% 449
from scipy import stats

p = stats.shapiro(table["WINDSPEED"].dropna()).pvalue
print(f"@shapiro_wilk_pvalue[{p:.4f}] @normal_distribution[{'yes' if p > 0.05 else 'no'}]")
# %% 450
months = pd.to_datetime(table["DATE TIME"]).dt.month
means = table.groupby(months)["WINDSPEED"].mean()
said = ", ".join(f"'month_{month}': {round(mean, 2)}" for month, mean in means.items())
print(f"@monthly_avg_windspeed[{{{said}}}]")
# %% 451
counts = {name: int(count) for name, count in table.isna().sum().items()}
print(f"@missing_values_per_column[{counts}]")
# %% 452
from scipy import stats

south = table[table["DIR"] == 180].dropna(subset=["WINDSPEED", "BARO"])
r, p = stats.pearsonr(south["WINDSPEED"], south["BARO"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}] @relationship_type[{kind}]")
# %% 453
wind, warmth = table["WINDSPEED"], table["AT"]
far = (wind - wind.mean()).abs() > 3 * wind.std()
print(f"@mean_wind_pre[{wind.mean():.2f}] @mean_atmos_temp_pre[{warmth.mean():.2f}]")
print(f"@mean_wind_post[{wind.mask(far, wind.mean()).mean():.2f}]")
print(f"@mean_atmos_temp_post[{warmth.fillna(warmth.mean()).mean():.2f}]")
