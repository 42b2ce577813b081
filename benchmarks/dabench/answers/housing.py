# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("my_test_01.csv")
value = table["MedianHouseValue"]
# %% 666
print(f"@mean_value[{value.mean():.4f}] @std_dev[{value.std():.4f}]")
# %% 667
p = stats.shapiro(table["MedInc"]).pvalue
print(f"@p_value[{p:.4f}] @distribution_type[{'normal' if p > 0.05 else 'not normal'}]")
# %% 668
r, p = stats.pearsonr(table["HouseAge"], value)
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}]")
print(f"@significant_correlation[{'true' if p < 0.05 else 'false'}]")
# %% 669
income = table["MedInc"]
low, high = income.quantile([0.25, 0.75])
kept = income[income.between(low - 1.5 * (high - low), high + 1.5 * (high - low))]
print(f"@mean[{kept.mean():.2f}] @standard_deviation[{kept.std():.2f}]")
# %% 671
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split

features = table[["MedInc", "AveRooms", "Population", "Latitude", "Longitude"]]
parts = train_test_split(features, value, test_size=0.3, random_state=42)
train, test, train_value, test_value = parts
predicted = LinearRegression().fit(train, train_value).predict(test)
print(f"@mse[{mean_squared_error(test_value, predicted):.3f}]")
# %% 673
import numpy as np
from sklearn.preprocessing import StandardScaler

table["MedInc"] = table["MedInc"].fillna(table["MedInc"].mean())
table["AveOccup"] = StandardScaler().fit_transform(table[["AveOccup"]])
r = (table["AveRooms"] / table["Population"]).corr(value)
print(f"@mean_value[{np.mean(value):.4f}] @standard_deviation[{np.std(value):.4f}]")
print(f"@pearson_coefficient[{r:.4f}]")
# %% 674
from sklearn.metrics import mean_absolute_error
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

features = table[["MedInc", "AveRooms", "HouseAge", "Latitude", "Longitude"]]
parts = train_test_split(features, value, test_size=0.3, random_state=42)
train, test, train_value, test_value = parts
scaler = StandardScaler().fit(train)
model = DecisionTreeRegressor(max_depth=5, random_state=42).fit(scaler.transform(train), train_value)
predicted = model.predict(scaler.transform(test))
print(f"@mean_absolute_error[{mean_absolute_error(test_value, predicted):.4f}]")
print(f"@pearson_coefficient[{stats.pearsonr(predicted, test_value).statistic:.4f}]")
