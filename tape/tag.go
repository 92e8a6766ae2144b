package tape

// Tag returns a hash of a session id for logs and traces, which more people see than tapes: an id may be a name or a telephone
// number. It is the part of the tape's name after "__", so people with access to tapes can find the session. It does not protect an id
// against guessing. The tag of "" is "".
func Tag(session string) string {
	if session == "" {
		return ""
	}
	return half(session)
}
