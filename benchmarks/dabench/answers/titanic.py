# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("titanic.csv")
# %% 129
print(f"@mean_fare[{table['Fare'].mean():.2f}] @std_dev_fare[{table['Fare'].std(ddof=0):.2f}]")
# %% 130
p = stats.shapiro(table["Age"].dropna()).pvalue
print(f"@norm_test_pvalue[{p:.4f}] @is_normal[{p >= 0.05}]")
# %% 132
print(f"@outlier_count[{(abs(stats.zscore(table['Fare'])) > 3).sum()}]")
# %% 133
kept = table.dropna(subset=["Cabin"])
print(f"@row_count[{len(kept)}] @median_age[{kept['Age'].median():.1f}]")
# %% 136
for number, fares in table.groupby("Pclass")["Fare"]:
    print(f"@p_value_class_{number}[{stats.shapiro(fares).pvalue:.4f}]")
# %% 137
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

table["IsAlone"] = (table["SibSp"] + table["Parch"] == 0).astype(int)
survived = table["Survived"]
parts = train_test_split(table[["IsAlone"]], survived, test_size=0.3, random_state=42, stratify=survived)
train, test, train_survived, test_survived = parts
model = LogisticRegression(class_weight="balanced").fit(train, train_survived)
print(f"@model_score[{model.score(test, test_survived):.2f}]")
# %% 174
print(f"@fare_skewness[{table['Fare'].skew():.2f}]")
# %% 175
print(f"@outliers_count[{(abs(stats.zscore(table['Age'].dropna())) > 3).sum()}]")
# %% 176
chosen = (table["Sex"] == "male") & (table["Survived"] == 1) & (table["Fare"] > table["Fare"].mean())
print(f"@median_age[{table.loc[chosen, 'Age'].median():.2f}]")
# %% 177
ages = table.dropna(subset=["Age"])
first, third = (ages.loc[ages["Pclass"] == number, "Age"] for number in (1, 3))
p = stats.mannwhitneyu(first, third).pvalue
print(f"@p_value[{p:.4f}] @significance[{'Yes' if p < 0.05 else 'No'}]")
# %% 178
table["Embarked"] = table["Embarked"].fillna(table["Embarked"].mode()[0])
fare = (table["Fare"] - table["Fare"].min()) / (table["Fare"].max() - table["Fare"].min())
counts = table["Sex"].map({"male": 1, "female": 0}).value_counts()
print(f"@sex_encoded_count[{counts[0]}, {counts[1]}]")
print(f"@fare_after_scaling[{fare.min():.2f}, {fare.max():.2f}, {fare.mean():.4f}]")
# %% 179
chosen = table[(table["Survived"] == 1) & (table["Pclass"] == 1)]
print(f"@correlation_coefficient[{chosen['Age'].corr(chosen['Fare']):.3f}]")
# %% 180
for number, fares in table.groupby("Pclass")["Fare"]:
    print(f"@class{number}_outliers[{(abs(stats.zscore(fares)) > 3).sum()}]")
# %% 304
print(f"@normality_test_result[{stats.shapiro(table['Fare']).pvalue >= 0.05}]")
# %% 308
titles = table["Name"].str.extract(r"\b(Mr|Mrs|Miss|Master)\.", expand=False)
for title, fare in table.groupby(titles)["Fare"].mean().items():
    print(f"@average_fare_{title}[{fare:.2f}]")
# %% 309
for name in ("Age", "Fare"):
    values = table[name].dropna()
    within = values.between(values.mean() - values.std(), values.mean() + values.std()).sum()
    print(f"@{name.lower()}_skewness[{stats.skew(values):.2f}]")
    print(f"@{name.lower()}_kurtosis[{stats.kurtosis(values):.2f}]")
    print(f"@{name.lower()}_values_within_one_stdev[{within}]")
# %% 310
names = ["Age", "Fare", "SibSp", "Parch"]
r = table[names].corr()
pairs = {(one, other): r.loc[one, other] for one in names for other in names if one < other}
best = max(pairs, key=pairs.get)
print(f"@strongest_correlation_pair[{', '.join(best)}]")
print(f"@strongest_correlation_coefficient[{pairs[best]:.2f}]")
# %% 516
print(f"@skewness_fare[{table['Fare'].skew():.2f}]")
# %% 517
print(f"@correlation_pclass_fare[{table['Pclass'].corr(table['Fare']):.2f}]")
# %% 518
print(f"@number_of_entries_left[{(stats.zscore(table['Fare']) <= 3).sum()}]")
# %% 520
print(f"@correlation_coefficient[{(table['SibSp'] + table['Parch']).corr(table['Survived']):.2f}]")
# %% 521
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

features = table[["Age", "Fare"]].assign(male=table["Sex"] == "male")
features["Age"] = features["Age"].fillna(features["Age"].mean())
parts = train_test_split(features, table["Survived"], test_size=0.3, random_state=42)
train, test, train_survived, test_survived = parts
model = LogisticRegression().fit(train, train_survived)
print(f"@classifier_accuracy[{model.score(test, test_survived):.2f}]")
# %% 522
titles = table["Name"].str.extract(r"(\S+)\.", expand=False)
titles = titles.where(titles.isin(["Mr", "Mrs", "Miss"]), "Other")
chi2, p, *_ = stats.chi2_contingency(pd.crosstab(titles, table["Pclass"]))
print(f"@chi_square_statistic[{chi2:.2f}] @p_value[{p:.4f}]")
# %% 523
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import MinMaxScaler

clean = table.drop_duplicates().drop(columns="Cabin")
clean["Fare"] = MinMaxScaler().fit_transform(clean[["Fare"]])
known = clean["Age"].notna()
neighbours = KNeighborsClassifier(n_neighbors=3)
neighbours.fit(clean.loc[known, ["Fare", "Pclass"]], clean.loc[known, "Age"].astype(int))
clean.loc[~known, "Age"] = neighbours.predict(clean.loc[~known, ["Fare", "Pclass"]])
names = ["child", "teenager", "adult", "senior"]
groups = pd.cut(clean["Age"], [-1, 12, 18, 60, 200], labels=names).value_counts()
for name in names:
    print(f"@{name}_count[{groups[name]}]")
