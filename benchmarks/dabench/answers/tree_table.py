# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("ts-sc4-wi100000-sl25000-Qrob_Chr05.tree_table.csv")
# %% 297
null = table.loc[table["tree"].isna(), "nsnps"]
known = table.loc[table["tree"].notna(), "nsnps"]
print(f"@mean_with_tree_null[{null.mean():.2f}] @mean_with_tree_notnull[{known.mean():.2f}]")
print(f"@pvalue[{stats.ttest_ind(null, known, nan_policy='omit').pvalue:.4f}]")
# %% 298
values = table["nsamplecov"].dropna()
print(f"@is_normal[{'yes' if stats.shapiro(values).pvalue > 0.05 else 'no'}]")
print(f"@skewness[{stats.skew(values):.2f}] @kurtosis[{stats.kurtosis(values):.2f}]")
# %% 300
both = table[["nsnps", "nsamplecov"]].dropna()
r, p = stats.pearsonr(both["nsnps"], both["nsamplecov"])
kind = "correlated" if p < 0.05 else "not correlated"
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}] @correlation[{kind}]")
