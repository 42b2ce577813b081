# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("test_x.csv")
# %% 349
print(f"@mean_age[{table['Age'].mean():.2f}]")
# %% 350
print(f"@is_normal[{stats.shapiro(table['Fare']).pvalue > 0.05}]")
# %% 351
print(f"@correlation_coefficient[{table['Age'].corr(table['Fare']):.2f}]")
# %% 352
outliers = sorted(table.loc[abs(stats.zscore(table["Fare"])) > 3, "Fare"])
print(f"@fare_outliers[{', '.join(map(str, outliers))}]")
# %% 354
print(f"@average_familysize[{(table['IsAlone'] + 2).mean():.1f}]")
# %% 355
import statsmodels.api as sm

fit = sm.OLS(table["Fare"], sm.add_constant(table[["Age", "Pclass"]])).fit()
for name in ("Age", "Pclass"):
    kind = "significant" if fit.pvalues[name] < 0.05 else "not significant"
    print(f"@coef_{name.lower()}[{fit.params[name]:.2f}] @relationship_{name.lower()}[{kind}]")
