# %% common
import pandas as pd

table = pd.read_csv("test_ave.csv")
# %% 0
print(f"@mean_fare[{table['Fare'].mean():.2f}]")
# %% 5
family = table["SibSp"] + table["Parch"]
print(f"@correlation_coefficient[{family.corr(table['Fare']):.2f}]")
# %% 6
names = ["child", "teenager", "adult", "elderly"]
groups = pd.cut(table["Age"], [-1, 12, 19, 59, 200], labels=names)
for name in names:
    print(f"@mean_fare_{name}[{table.loc[groups == name, 'Fare'].mean():.2f}]")
# %% 7
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split

features = table[["Pclass", "Sex", "Age", "SibSp", "Parch", "Fare", "Embarked"]]
features = pd.get_dummies(features, columns=["Sex", "Embarked"])
parts = train_test_split(features, table["Survived"], test_size=0.2, random_state=42)
train, test, train_survived, test_survived = parts
predicted = LinearRegression().fit(train, train_survived).predict(test) > 0.5
print(f"@prediction_accuracy[{accuracy_score(test_survived, predicted):.2f}]")
# %% 8
for number, fares in table.groupby("Pclass")["Fare"]:
    print(f"@mean_fare_class{number}[{fares.mean():.2f}]")
    print(f"@median_fare_class{number}[{fares.median():.2f}]")
    print(f"@std_dev_fare_class{number}[{fares.std(ddof=0):.2f}]")
