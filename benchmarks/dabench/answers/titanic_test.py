# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("titanic_test.csv")
# %% 526
print(f"@correlation_coefficient[{table['Pclass'].corr(table['Fare']):.2f}]")
# %% 527
for (sex, number), age in table.groupby(["Sex", "Pclass"])["Age"].mean().items():
    print(f"@average_age_{sex}_class{number}[{age:.2f}]")
# %% 528
fares = table["Fare"]
low, high = fares.quantile([0.25, 0.75])
outside = (fares < low - 1.5 * (high - low)) | (fares > high + 1.5 * (high - low))
print(f"@outlier_count[{outside.sum()}]")
print(f"@outlier_ids[{', '.join(map(str, sorted(table.loc[outside, 'PassengerId'])))}]")
# %% 529
r, p = stats.pearsonr(table["SibSp"], table["Parch"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}] @relationship_type[{kind}]")
# %% 530
for sex, group in table.dropna(subset=["Age", "Fare"]).groupby("Sex"):
    r, p = stats.pearsonr(group["Age"], group["Fare"])
    kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
    print(f"@correlation_coefficient_{sex}[{r:.2f}] @p_value_{sex}[{p:.4f}]")
    print(f"@relationship_type_{sex}[{kind}]")
