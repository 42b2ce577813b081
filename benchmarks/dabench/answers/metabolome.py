# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("imp.score.ldlr.metabolome.csv")
# %% 32
scores = table["importance.score"].dropna()
print(f"@importance_score_mean[{scores.mean():.2f}] @importance_score_std[{scores.std():.2f}]")
# %% 33
values = table["row m/z"].dropna()
p = stats.kstest(values, "norm", args=(values.mean(), values.std())).pvalue
decision = "normally distributed" if p >= 0.05 else "not normally distributed"
print(f"@ks_test_p_value[{p:.4f}] @normality_decision[{decision}]")
# %% 34
both = table[["row retention time", "importance.score"]].dropna()
r, p = stats.pearsonr(both["row retention time"], both["importance.score"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}] @relationship_type[{kind}]")
# %% 35
values = table["row retention time"].dropna()
print(f"@removed_outliers_count[{(abs(stats.zscore(values)) > 3).sum()}]")
# %% 39
import numpy as np

scores = table["importance.score"].dropna()
p = stats.shapiro(scores).pvalue
logs = np.log(scores[scores > 0]) if p < 0.05 else scores
print(f"@is_normal[{p:.4f}]")
print(f"@transformed_importance_score_mean[{logs.mean():.2f}]")
print(f"@transformed_importance_score_std[{logs.std():.2f}]")
