package adapter

// Observer counts requests to providers. Its methods, and those of their results, are called
// synchronously and from many goroutines: they must not block. A model's name may be one that a caller has made up.
type Observer interface {
	// Ask is called for an attempt, the n-th at a request, before it waits for a slot.
	Ask(provider, model string, n int) Attempt
}

// Attempt observes one attempt. Its methods are called in this order, from one goroutine; End always, the others where it
// comes so far.
type Attempt interface {
	Sent()  // it has its slot, and the provider is asked
	First() // the first of the answer is there
	// End has the code of an [Error], [Complete] or [Left]; and what the provider has counted, which is nothing where it has not.
	End(outcome string, u Usage)
}

// Outcomes of attempts that have not failed.
const (
	Complete = "ok"
	Left     = "canceled" // the caller did not want the rest
)
