# %% common
import pandas as pd

table = pd.read_csv("tr_eikon_eod_data.csv", index_col="Date").sort_index()
# %% 572
day = table[".SPX"].idxmax()
place = table.index.get_loc(day)
change = (table["AAPL.O"].iloc[place] / table["AAPL.O"].iloc[place - 1] - 1) * 100
said = f"{change:.2f}" if place else "Previous day data doesn't exist"
print(f"@max_SPX_date[{day}] @AAPL_price_percentage_change[{said}]")
# %% 574
prices = table[["MSFT.O", "SPY", ".VIX"]].dropna()
r = ((prices - prices.min()) / (prices.max() - prices.min())).corr()
print(f"@MSFT_SPY_correlation[{r.loc['MSFT.O', 'SPY']:.2f}]")
print(f"@MSFT_VIX_correlation[{r.loc['MSFT.O', '.VIX']:.2f}]")
print(f"@SPY_VIX_correlation[{r.loc['SPY', '.VIX']:.2f}]")
# %% 575
from scipy import stats

known = table.dropna()
r, p = stats.pearsonr(known[["AAPL.O", "MSFT.O", "AMZN.O"]].mean(axis=1), known[".SPX"])
kind = "none" if p >= 0.05 else "linear" if abs(r) >= 0.5 else "nonlinear"
print(f"@correlation_coefficient_corr[{r:.2f}] @p_value_pval[{p:.4f}]")
print(f"@relationship_type_relation[{kind}]")
