package db

import (
	"context"
	"time"

	"github.com/lingserve/lingserve/adapter"
)

// usageLife is how long what was spent on a day is kept.
const usageLife = 400 * 24 * time.Hour

// Usage stores what calls of models took. It implements [adapter.SpendingStore].
type Usage struct{ db *DB }

var _ adapter.SpendingStore = (*Usage)(nil)

// Usage returns the store of what calls of models took.
func (db *DB) Usage() *Usage { return &Usage{db} }

// Add implements [adapter.SpendingStore].
func (u *Usage) Add(ctx context.Context, day string, spent []adapter.Spent) (total adapter.Spending, err error) {
	err = u.db.Update(ctx, func(tx *Tx) {
		total = adapter.Spending{Day: day, Callers: map[string]int64{}}
		for _, s := range spent {
			total.Callers[s.Caller] = 0
			tx.exec(`INSERT INTO usage (day, owner, model, input, output, cost) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (day, owner, model)
				DO UPDATE SET input = usage.input + excluded.input, output = usage.output + excluded.output, cost = usage.cost + excluded.cost`,
				day, plainText(s.Caller), plainText(s.Model), s.Usage.PromptTokens, s.Usage.CompletionTokens, s.Usage.Cost)
		}
		for caller := range total.Callers {
			total.Callers[caller] = spentOn(tx, day, "AND owner = $2", plainText(caller))
		}
		total.Cost = spentOn(tx, day, "")
	})
	return total, err
}

func spentOn(tx *Tx, day, condition string, args ...any) (cost int64) {
	tx.scanOne([]any{&cost}, "SELECT CAST(coalesce(sum(cost), 0) AS BIGINT) FROM usage WHERE day = $1 "+condition, append([]any{day}, args...)...)
	return cost
}

// On implements [adapter.SpendingStore].
func (u *Usage) On(ctx context.Context, day string) (total adapter.Spending, err error) {
	total = adapter.Spending{Day: day, Callers: map[string]int64{}}
	tx := u.db.reader(ctx)
	for read := range tx.rows("SELECT owner, CAST(sum(cost) AS BIGINT) FROM usage WHERE day = $1 GROUP BY owner", day) {
		var owner string
		var cost int64
		read(&owner, &cost)
		total.Callers[owner] = cost
		total.Cost += cost
	}
	return total, tx.err
}
