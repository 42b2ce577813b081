# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("titanic_train.csv")
# %% 408
known = table.dropna(subset=["Age"])
r, p = stats.pearsonr(known["Fare"], known["Age"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}] @relationship_type[{kind}]")
# %% 409
print(f"@missing_values[{table['Cabin'].isna().sum()}]")
# %% 410
died = table[table["Survived"] == 0].dropna(subset=["Age"])
male, female = (died.loc[died["Sex"] == sex, "Age"] for sex in ("male", "female"))
print(f"@is_significantly_different[{stats.ks_2samp(male, female).pvalue < 0.05}]")
# %% 411
fares = table["Fare"]
low, high = fares.quantile([0.25, 0.75])
outliers = fares[~fares.between(low - 1.5 * (high - low), high + 1.5 * (high - low))]
print(f"@outlier_count[{len(outliers)}]")
print(f"@outlier_range_low[{outliers.min():.2f}] @outlier_range_high[{outliers.max():.2f}]")
# %% 412
family = (table["SibSp"] + table["Parch"]).groupby(table["Survived"]).mean()
print(f"@mean_familysize_survived[{family[1]:.2f}] @mean_familysize_did_not_survive[{family[0]:.2f}]")
# %% 413
cherbourg = table[table["Embarked"] == "C"]
r, p = stats.pearsonr(cherbourg["Pclass"], cherbourg["Fare"])
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}]")
print(f"@relationship_significance[{'significant' if p < 0.01 else 'not significant'}]")
# %% 414
ages = table.groupby("Pclass")["Age"].mean()
for number, name in {1: "first", 2: "second", 3: "third"}.items():
    print(f"@{name}_class_average_age[{ages[number]:.2f}]")
# %% 415
men = table[table["Sex"] == "male"]
survived, died = (men.loc[men["Survived"] == value, "Fare"] for value in (1, 0))
p = stats.ttest_ind(survived, died).pvalue
print(f"@survived_fare_mean[{survived.mean():.2f}] @survived_fare_std[{survived.std():.2f}]")
print(f"@not_survived_fare_mean[{died.mean():.2f}] @not_survived_fare_std[{died.std():.2f}]")
print(f"@fare_difference_significance[{'significant' if p < 0.05 else 'not significant'}]")
