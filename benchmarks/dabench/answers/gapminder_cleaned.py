# %% common
import numpy as np
import pandas as pd
from scipy import stats

table = pd.read_csv("gapminder_cleaned.csv")
# %% 729
p = stats.normaltest(table["gdppercap"]).pvalue
print(f"@distribution_normality[{'normal' if p > 0.05 else 'not normal'}]")
# %% 730
r, p = stats.pearsonr(table["pop"], table["gdppercap"])
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}]")
# %% 732
before = table["lifeexp"]
after = before.fillna(before.groupby(table["country"]).transform("mean")).fillna(before.mean())
print(f"@number_of_missing_values_in_lifeexp_before[{before.isna().sum()}]")
print(f"@number_of_missing_values_in_lifeexp_after[{after.isna().sum()}]")
# %% 733
logs = np.log10(table["gdppercap"])
print(f"@has_nan_values_in_new_feature[{logs.isna().any()}]")
print(f"@new_feature_mean[{logs.mean():.2f}] @new_feature_std[{logs.std():.2f}]")
# %% 734
for name, group in table.groupby("continent"):
    r, p = stats.pearsonr(group["lifeexp"], group["gdppercap"])
    kind = "significant" if p < 0.05 and abs(r) >= 0.5 else "non-significant"
    print(f"@continent_name[{name}] @correlation_coefficient[{r:.2f}]")
    print(f"@p_value[{p:.4f}] @correlation_significance[{kind}]")
# %% 736
total = table["pop"] * table["gdppercap"]
scaled = (total - total.min()) / (total.max() - total.min())
print(f"@is_normal[{'yes' if stats.shapiro(scaled).pvalue > 0.05 else 'no'}]")
