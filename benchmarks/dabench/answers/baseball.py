# %% common
import pandas as pd
from scipy import stats

table = pd.read_csv("baseball_data.csv")
# %% 243
print(f"@mean_batting_average[{table['batting_average'].mean():.3f}]")
# %% 244
p = stats.shapiro(table["number_of_home_runs"].dropna()).pvalue
print(f"@p_value[{p:.4f}] @normality_test[{'not_normal' if p < 0.05 else 'normal'}]")
# %% 247
runs = table.groupby("indicator_of_free_agency_eligibility")["number_of_runs"].mean()
print(f"@average_runs_by_eligible_for_free_agency[{runs[1]:.2f}]")
print(f"@average_runs_by_not_eligible_for_free_agency[{runs[0]:.2f}]")
# %% 249
both = table[["number_of_doubles", "salary_in_thousands_of_dollars"]].dropna()
r, p = stats.pearsonr(both["number_of_doubles"], both["salary_in_thousands_of_dollars"])
print(f"@correlation_coefficient[{r:.2f}] @p_value[{p:.4f}]")
# %% 250
difference = (table["batting_average"] - table["on_base_percentage"]).dropna()
print(f"@mean[{difference.mean():.2f}] @std_dev[{difference.std():.2f}]")
