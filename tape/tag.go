package tape

// Tag stands for a session where its id is not to be read: in logs and traces, which more people see than tapes, since an id may be
// a name or a telephone number. It is the part of a tape's name behind the "__", so whoever may look at tapes finds the session by
// it. It hides an id from readers, not from somebody who tries all there may be. Of "" it is "".
func Tag(session string) string {
	if session == "" {
		return ""
	}
	return half(session)
}
