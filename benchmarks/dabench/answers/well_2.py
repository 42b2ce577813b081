# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("well_2_complete.csv")
# %% 602
p = stats.shapiro(table["RHO_OLD"].dropna()).pvalue
print(f"@normality_status[{'Normal' if p > 0.05 else 'Not Normal'}]")
# %% 604
values = table["SWX"].dropna()
far = abs(stats.zscore(values)) > 3
print(f"@outlier_count[{far.sum()}] @mean_after_removal[{values[~far].mean():.3f}]")
print(f"@std_dev_after_removal[{values[~far].std():.3f}]")
