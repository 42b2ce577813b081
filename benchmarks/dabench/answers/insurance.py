# %% common
import pandas as pd

table = pd.read_csv("insurance.csv")
# %% 24
print(f"@mean_age[{table['age'].dropna().mean():.2f}]")
# %% 25
print(f"@bmi_distribution[{'normal' if abs(table['bmi'].skew()) < 0.5 else 'not_normal'}]")
# %% 26
print(f"@correlation_coefficient[{table['charges'].corr(table['children']):.2f}]")
# %% 27
charges = table["charges"]
low, high = charges.quantile([0.25, 0.75])
inside = charges.between(low - 1.5 * (high - low), high + 1.5 * (high - low))
outliers = charges[~inside]
print(f"@total_outliers[{len(outliers)}]")
print(f"@mean_charges_outliers[{outliers.mean():.2f}]")
print(f"@median_charges_outliers[{outliers.median():.2f}]")
# %% 28
clean = table.dropna(subset=["age", "sex", "region"]).copy()
clean["sex"] = (clean["sex"] == "male").astype(int)
clean["smoker"] = (clean["smoker"] == "yes").astype(int)
clean["region"] = clean["region"].astype("category").cat.codes
for name in ("age", "bmi", "children", "charges"):
    clean[name] = (clean[name] - clean[name].min()) / (clean[name].max() - clean[name].min())
for name, mean in clean.mean().items():
    print(f"@mean_{name}[{mean:.4f}]")
# %% 30
from sklearn.linear_model import LinearRegression
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split

clean = table.dropna(subset=["age", "bmi", "charges"])
parts = train_test_split(clean[["age", "bmi"]], clean["charges"], test_size=0.2, random_state=42)
train, test, train_charges, test_charges = parts
predicted = LinearRegression().fit(train, train_charges).predict(test)
print(f"@model_rmse[{root_mean_squared_error(test_charges, predicted):.2f}]")
