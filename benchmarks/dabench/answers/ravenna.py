# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("ravenna_250715.csv")
# %% 683
print(f"@mean_temperature[{table['temp'].mean():.2f}]")
# %% 684
p = stats.shapiro(table["humidity"]).pvalue
print(f"@shapiro_p_value[{p:.4f}] @distribution_type[{'normal' if p > 0.05 else 'not normal'}]")
# %% 685
r, p = stats.pearsonr(table["pressure"], table["wind_speed"])
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}]")
print(f"@relationship_significance[{'significant' if p < 0.05 else 'not significant'}]")
# %% 688
hours = pd.to_datetime(table["dt"], unit="s").dt.hour
names = ["night", "morning", "afternoon", "evening"]
for place, name in enumerate(names):
    print(f"@{name}[{(hours // 6 == place).sum()}]")
# %% 690
wind = table["wind_speed"]
far = abs(stats.zscore(wind)) > 3
print(f"@number_of_outliers[{far.sum()}] @mean_wind_speed[{wind[~far].mean():.2f}]")
print(f"@std_deviation_wind_speed[{wind[~far].std():.2f}]")
