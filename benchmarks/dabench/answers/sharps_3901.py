# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("3901.csv")
# %% 268
p = stats.shapiro(table["MEANPOT"]).pvalue
print(f"@normality_test_result[{'Normal' if p > 0.05 else 'Not Normal'}] @p_value[{p:.3f}]")
# %% 269
r, p = stats.pearsonr(table["TOTUSJH"], table["TOTUSJZ"])
sign = "Positive Correlation" if r > 0 else "Negative Correlation" if r < 0 else "No Correlation"
kind = sign if p < 0.05 else "No Significant Correlation"
print(f"@correlation_type[{kind}] @correlation_coefficient[{r:.2f}] @p_value[{p:.3f}]")
# %% 271
import numpy as np

clean = table.drop_duplicates()
flux = clean["USFLUX"].fillna(clean["USFLUX"].mean())
logs = np.log10(clean["MEANJZH"] + 1e-10)
total = clean["TOTUSJZ"]
scaled = (total - total.min()) / (total.max() - total.min())
print(f"@clean_entries[{len(clean)}] @mean_USFLUX[{flux.mean():.2f}]")
print(f"@log_MEANJZH[{logs.iloc[0]:.3f}] @norm_TOTUSJZ[{scaled.iloc[0]:.3f}]")
# %% 272
ratio = table["TOTUSJZ"] / (table["TOTUSJH"] + 1e-10)
print(f"@mean_ratio[{ratio.mean():.2f}] @stddev_ratio[{ratio.std():.2f}]")
# %% 273
z = stats.zscore(table["MEANGAM"])
outliers = [round(value, 2) for value in table.loc[abs(z) > 3, "MEANGAM"]]
print(f"@correlation_coefficient[{table['MEANGAM'].corr(table['MEANGBT']):.3f}]")
print(f"@outlier_count[{len(outliers)}]")
print(f"@outlier_list[{outliers}]")
# %% 275
from sklearn.ensemble import RandomForestRegressor

clean = table.drop_duplicates()
flux = clean["USFLUX"].fillna(clean["USFLUX"].mean())
features = clean[["MEANJZH", "TOTUSJZ", "MEANGBT"]]
model = RandomForestRegressor(100, random_state=0).fit(features, clean["TOTUSJH"])
print(f"@duplicate_count[{len(table) - len(clean)}]")
print(f"@usflux_mean[{flux.mean():.2f}]")
print(f"@new_feature_mean[{(clean['MEANGAM'] - clean['MEANGBZ']).mean():.2f}]")
print(f"@model_accuracy[{model.score(features, clean['TOTUSJH']) * 100:.3f}]")
