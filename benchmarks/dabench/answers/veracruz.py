# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("veracruz 2016.csv")
# %% 277
print(f"@correlation_coefficient[{table['MedInd'].corr(table['LarInd']):.4f}]")
# %% 278
print(f"@outliers_count[{(abs(stats.zscore(table['Agri'])) > 3).sum()}]")
# %% 282
r = stats.pearsonr(table["Agri"], table["Residential"]).statistic
print(f"@correlation_coefficient[{r:.2f}]")
print(f"@number_of_outliers[{(stats.zscore(table['Agri']) > 3).sum()}]")
