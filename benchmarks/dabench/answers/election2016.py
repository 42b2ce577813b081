# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("election2016.csv")
# %% 139
p = stats.shapiro(table["per_dem"]).pvalue
print(f"@normality_status[{'not normal' if p < 0.05 else 'normal'}]")
# %% 140
r, p = stats.pearsonr(table["votes_dem"], table["votes_gop"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
print(f"@correlation_coefficient[{r:.3f}] @p_value[{p:.4f}] @relationship_type[{kind}]")
# %% 142
votes = table["diff"].str.replace(",", "").astype(float)
points = table["per_point_diff"].str.rstrip("%").astype(float)
r, p = stats.pearsonr(votes, points)
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}] @relationship_type[{kind}]")
# %% 144
for party in ("dem", "gop"):
    shares = table[f"per_{party}"]
    test = stats.anderson(shares, "norm", method="interpolate")
    print(f"@mean_{party}[{shares.mean():.2f}]")
    print(f"@std_dev_{party}[{shares.std():.3f}]")
    print(f"@dist_{party}[{'Not Normal' if test.pvalue < 0.05 else 'Normal'}]")
