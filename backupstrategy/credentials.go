package backupstrategy

import (
	"bytes"
	"unicode"
)

// byteOrderMark is what some editors put before a text that they save.
const byteOrderMark = '\ufeff'

// CredentialProblem says what is wrong with a key, without a word of its value. S3 signs with every byte of it, and the operator hands it on as it is: a line
// break at its end, as echo leaves one, makes every request fail with a signature that does not match.
func CredentialProblem(value []byte) string {
	switch {
	case len(value) == 0:
		return "is missing or empty: set it"
	case len(bytes.TrimSpace(value)) != len(value):
		return "has a line break or blank before or behind its value: write it without, as with printf or kubectl create secret --from-literal"
	case bytes.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) || r == byteOrderMark }):
		return "has a line break, a byte order mark or another control character inside its value: write the value alone, as with kubectl create secret --from-literal"
	default:
		return ""
	}
}
