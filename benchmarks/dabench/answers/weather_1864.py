# %% common
import pandas as pd

table = pd.read_csv("weather_data_1864.csv")
# %% 755
print(f"@mean_TMAX_F[{table['TMAX_F'].mean():.2f}]")
# %% 756
from scipy import stats

r, p = stats.pearsonr(table["TMAX_F"], table["obs_value"])
if p < 0.05:
    print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}]")
else:
    print('@correlation_status["No significant correlation"]')
# %% 757
values = table["obs_value"]
low, high = values.quantile([0.25, 0.75])
print(f"@outlier_count[{(~values.between(low - 1.5 * (high - low), high + 1.5 * (high - low))).sum()}]")
# %% 759
for name, warmth in table.groupby("obs_type")["TMAX_F"]:
    print(f"@median_{name.lower()}[{warmth.median():.2f}]")
    print(f"@range_{name.lower()}[{warmth.max() - warmth.min():.2f}]")
# %% 760
missing = table["obs_value"].isna().groupby(table["station"]).sum()
print(f'@most_missing_station_name["{missing.idxmax()}"]')
print(f"@most_missing_station_count[{missing.max()}]")
