package access

import (
	"net/http"
	"time"
)

// Refusal says why a request is refused. The caller may see all of it but the Reason, which is for logs and metrics: there are few reasons,
// and each is a word.
type Refusal struct {
	Status     int    // of HTTP
	Code       string // of the problem document
	Reason     string // as "key_expired"
	Detail     string // a sentence
	RetryAfter time.Duration
}

func (r *Refusal) Error() string { return "access: " + r.Detail }

// Is lets a refusal that says how long to wait be the one that it was made of.
func (r *Refusal) Is(target error) bool {
	t, ok := target.(*Refusal)
	return ok && t.Reason == r.Reason
}

// later is the refusal with a time to wait.
func (r *Refusal) later(d time.Duration) *Refusal {
	l := *r
	l.RetryAfter = d
	return &l
}

// unauthorized and forbidden make the refusals of the two kinds that most are of.
func unauthorized(reason, detail string) *Refusal {
	return &Refusal{Status: http.StatusUnauthorized, Code: "unauthorized", Reason: reason, Detail: detail}
}

func forbidden(reason, detail string) *Refusal {
	return &Refusal{Status: http.StatusForbidden, Code: "forbidden", Reason: reason, Detail: detail}
}
