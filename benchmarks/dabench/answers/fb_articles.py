# %% common
import pandas as pd

table = pd.read_csv("fb_articles_20180822_20180829_df.csv")
# %% 207
texts = table.select_dtypes(["object", "string"])
missing = texts.isna() | texts.isin(["NaN", "na", "null", ""])
print(f"@missing_columns_in_object_type[{', '.join(sorted(texts.columns[missing.any()]))}]")
# %% 208
print(f"@compound_mean[{table['compound'].mean():.3f}]")
print(f"@compound_std[{table['compound'].std():.3f}]")
# %% 209
print(f"@correlation_coefficient[{table['neg'].corr(table['pos']):.2f}]")
# %% 210
neg = table["neg"]
kept = neg[((neg - neg.mean()) / neg.std()).abs() <= 3]
print(f"@mean_neg[{kept.mean():.2f}] @std_dev_neg[{kept.std():.2f}]")
# %% 214
news = table[table["source"] == "abc-news"]
length = news["text"].str.replace(r"\s", "", regex=True).str.len()
for name in ("neg", "neu", "pos"):
    print(f"@{name}_length_corr[{news[name].corr(length):.2f}]")
