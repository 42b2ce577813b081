# %% common
import pandas as pd

table = pd.read_csv("Zip_MedianSoldPricePerSqft_AllHomes.csv").dropna(subset=["MedianSoldPricePerSqft"])
price = table["MedianSoldPricePerSqft"]
# %% 337
from scipy import stats

skewness = stats.skew(price)
kind = "Positive Skewness" if skewness > 0 else "Negative Skewness" if skewness < 0 else "No Skewness"
print(f"@skewness_coefficient[{skewness:.2f}] @skewness_type[{kind}]")
# %% 338
r = table["SizeRank"].corr(price)
kind = "Positive Correlation" if r > 0 else "Negative Correlation" if r < 0 else "No Correlation"
print(f"@correlation_coefficient[{r:.3f}] @correlation_type[{kind}]")
