# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("beauty and the labor market.csv")
# %% 64
print(f"@mean_wage[{table['wage'].mean():.2f}] @std_wage[{table['wage'].std():.2f}]")
# %% 66
r, p = stats.pearsonr(table["wage"], table["exper"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}] @relationship_type[{kind}]")
# %% 69
print(f"@correlation[{(table['exper'] * table['looks']).corr(table['wage']):.3f}]")
# %% 70
from sklearn.linear_model import LinearRegression
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split

names = ["exper", "looks", "union", "goodhlth", "black", "female", "married", "south", "bigcity", "smllcity"]
names += ["service", "educ"]
parts = train_test_split(table[names], table["wage"], test_size=0.3, random_state=42)
train, test, train_wage, test_wage = parts
predicted = LinearRegression().fit(train, train_wage).predict(test)
print(f"@RMSE[{root_mean_squared_error(test_wage, predicted):.2f}]")
