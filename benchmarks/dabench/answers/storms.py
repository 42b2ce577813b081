# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("cost_data_with_errors.csv")
# %% 425
print(f"@missing_values_count[{table['max_sust_wind'].isna().sum()}]")
# %% 426
strongest = table.loc[table["max_storm_cat"].idxmax()]
print(f"@max_wind_speed[{strongest['max_sust_wind']:.2f}]")
# %% 427
print(f"@null_entries_count[{table['min_p'].isna().sum()}]")
# %% 428
chosen = table[table["year"].between(2000, 2010)].dropna(subset=["damage_USD"])
damage = [values for _, values in chosen.groupby("year")["damage_USD"]]
p = stats.f_oneway(*damage).pvalue
print(f"@average_damage[{', '.join(f'{values.mean():.2f}' for values in damage)}]")
print(f"@p_value[{p:.4f}] @difference_type[{'significant' if p < 0.05 else 'none'}]")
# %% 429
known = table.dropna(subset=["max_storm_cat", "damage_USD"])
r, p = stats.pearsonr(known["max_storm_cat"], known["damage_USD"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}] @relationship_type[{kind}]")
# %% 431
dates = table[["start_date", "end_date"]].apply(pd.to_datetime, errors="coerce")
days = (dates["end_date"] - dates["start_date"]).dt.days
known = table.assign(days=days).dropna(subset=["days", "max_storm_cat", "damage_USD"])
above = known["damage_USD"] > known["damage_USD"].median()
for name, storms in {"high": known[above], "low": known[~above]}.items():
    r, p = stats.pearsonr(storms["max_storm_cat"], storms["days"])
    kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.4 else "nonlinear"
    print(f"@{name}_damage_correlation_coefficient[{r:.2f}] @{name}_damage_p_value[{p:.4f}]")
    print(f"@{name}_damage_relationship_type[{kind}]")
# %% 432
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error
from sklearn.model_selection import train_test_split

filled = table[["max_sust_wind", "damage_USD", "min_p"]]
filled = filled.fillna(filled.mean())
parts = train_test_split(
    filled[["damage_USD", "min_p"]], filled["max_sust_wind"], test_size=0.2, random_state=42
)
train, test, train_wind, test_wind = parts
predicted = LinearRegression().fit(train, train_wind).predict(test)
print(f"@mean_squared_error[{mean_squared_error(test_wind, predicted):.4f}]")
