# %% common
import pandas as pd

table = pd.read_csv("test_Y3wMUE5_7gLdaTN.csv")
# %% 105
print(f"@correlation_coefficient[{table['ApplicantIncome'].corr(table['LoanAmount']):.2f}]")
# %% 108
total = table["ApplicantIncome"] + table["CoapplicantIncome"]
print(f"@mean_total_income[{total.mean():.2f}] @std_dev_total_income[{total.std():.2f}]")
# %% 109
from scipy import stats

amounts = table.dropna(subset=["LoanAmount"])
graduate = amounts.loc[amounts["Education"] == "Graduate", "LoanAmount"]
other = amounts.loc[amounts["Education"] == "Not Graduate", "LoanAmount"]
p = stats.ttest_ind(graduate, other).pvalue
print(f"@graduate_mean_loan[{graduate.mean():.2f}]")
print(f"@not_graduate_mean_loan[{other.mean():.2f}]")
print(f"@significance[{'significant' if p < 0.05 else 'no significant'}]")
# %% 111
amounts = table["LoanAmount"].fillna(table["LoanAmount"].median())
print(f"@mean_loan[{amounts.mean():.2f}]")
print(f"@median_loan[{amounts.median():.2f}]")
print(f"@std_dev_loan[{amounts.std():.2f}]")
