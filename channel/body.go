package channel

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BodyError says why the body of a platform's request is not read.
type BodyError struct {
	Status     int           // of the answer
	RetryAfter time.Duration // when the platform may send it again; 0 is not at all
	Err        error
}

func (e *BodyError) Error() string { return e.Err.Error() }
func (e *BodyError) Unwrap() error { return e.Err }

// Header sets the headers of the answer, whose status is e.Status.
func (e *BodyError) Header(h http.Header) {
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	h.Set("Connection", "close") // the rest of the body is not read
}

// ReadBody reads the body of a platform's request, of at most so many bytes and one of the media types. A request without a media type is
// one of them. What cannot be valid is refused before the body is read. The body may refuse to be read on, where there is no memory for it,
// by an error with a method RetryAfter.
func ReadBody(w http.ResponseWriter, r *http.Request, most int64, media ...string) ([]byte, *BodyError) {
	if r.ContentLength > most {
		return nil, tooLargeBody(most)
	}
	if kind := r.Header.Get("Content-Type"); kind != "" {
		found, _, err := mime.ParseMediaType(kind)
		if err != nil || !slices.Contains(media, found) {
			return nil, &BodyError{Status: http.StatusUnsupportedMediaType, Err: errors.New("expected a body of " + strings.Join(media, " or "))}
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err == nil {
		return body, nil
	}
	var full interface {
		error
		RetryAfter() time.Duration
	}
	if errors.As(err, &full) {
		return nil, &BodyError{http.StatusServiceUnavailable, full.RetryAfter(), errors.New("the server has no memory for the body now; send it again")}
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, tooLargeBody(most)
	}
	return nil, &BodyError{Status: http.StatusBadRequest, Err: errors.New("the body is incomplete; send it again")}
}

func tooLargeBody(most int64) *BodyError {
	return &BodyError{Status: http.StatusRequestEntityTooLarge, Err: errors.New("the request's body is larger than " + strconv.FormatInt(most, 10) + " bytes")}
}
