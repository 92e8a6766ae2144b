package tube

// Woken says whether a wake-up lies in r's channel, without asking for one.
func Woken(r *Reader) bool { return len(r.more) > 0 }
