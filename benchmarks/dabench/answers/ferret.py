# %% common
import pandas as pd

table = pd.read_csv("ferret-Pitt-2-preinf-lib2-100_sitediffsel.csv")
# %% 216
print(f"@mean[{table['abs_diffsel'].mean():.2f}] @std_dev[{table['abs_diffsel'].std():.2f}]")
# %% 217
top = table["positive_diffsel"] == table["positive_diffsel"].max()
print(f"@site_identifier[{','.join(table.loc[top, 'site'])}]")
# %% 218
print(f"@correlation_coefficient[{table['positive_diffsel'].corr(table['negative_diffsel']):.2f}]")
# %% 219
values = table["abs_diffsel"]
low, high = values.quantile([0.25, 0.75])
outliers = table[~values.between(low - 1.5 * (high - low), high + 1.5 * (high - low))]
print(f"@site_identifiers[{','.join(outliers['site'])}]")
print(f"@outlier_values[{','.join(str(round(value, 2)) for value in outliers['abs_diffsel'])}]")
# %% 220
clean = table.drop_duplicates().copy()
missing = int(clean.isna().sum().sum())
clean = clean.fillna(clean.mean(numeric_only=True))
clean["diff_range"] = clean["max_diffsel"] - clean["min_diffsel"]
said = "Missing values were replaced by the mean of their column." if missing else "No missing values were found."
print(f"@missing_values_handling[{said}]")
# %% 222
from scipy import stats

values = table["abs_diffsel"]
print(f"@skewness_value[{stats.skew(values):.2f}] @kurtosis_value[{stats.kurtosis(values):.2f}]")
# %% 224
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

high = table["positive_diffsel"] > table["positive_diffsel"].mean()
parts = train_test_split(table[["positive_diffsel"]], high, test_size=0.2, random_state=42)
train, test, train_high, test_high = parts
model = LogisticRegression(solver="liblinear", random_state=42).fit(train, train_high)
print(f"@accuracy_score[{model.score(test, test_high):.2f}]")
