# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("DES=+2006261.csv", index_col=False)
table.columns = table.columns.str.strip()
x, y, z = table["X"], table["Y"], table["Z"]
# %% 649
print(f"@mean_x[{x.mean():.3f}] @std_dev_x[{x.std():.3f}]")
# %% 650
r = x.corr(y)
print(f"@correlation_coefficient[{r if abs(r) >= 0.05 else 0:.3f}]")
# %% 651
low, high = z.quantile([0.25, 0.75])
print(f"@outlier_count[{(~z.between(low - 1.5 * (high - low), high + 1.5 * (high - low))).sum()}]")
# %% 652
p = stats.normaltest(x).pvalue
print(f"@normality_test_p_value[{p:.4f}] @normal_distribution[{p >= 0.05}]")
# %% 655
print(f"@correlation_XY[{x.corr(y):.2f}] @correlation_XZ[{x.corr(z):.2f}]")
# %% 656
far = abs(stats.zscore(x)) > 3
print(f"@number_of_outliers[{far.sum()}]")
print(f"@new_mean[{x[~far].mean():.2f}] @new_standard_deviation[{x[~far].std():.2f}]")
