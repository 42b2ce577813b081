# %% common
import pandas as pd

table = pd.read_csv("city_departments_in_current_budget.csv")
# %% 234
days = (pd.to_datetime(table["budget_year_end"]) - pd.to_datetime(table["budget_year_start"])).dt.days
print(f"@average_duration[{days.mean():.0f}]")
