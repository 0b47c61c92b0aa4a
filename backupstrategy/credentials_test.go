package backupstrategy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCredentialProblem(t *testing.T) {
	for value, says := range map[string]string{
		"AKIAEXAMPLE": "", "a/b+c=": "", "a pass phrase": "", "pässword": "",
		"": "missing or empty", "key\n": "line break or blank", " key": "line break or blank", "key\r\n": "line break or blank", "\n": "line break or blank",
		"\ufeffkey": "byte order mark", "AKIA\nsecret": "inside", "ke\x00y": "control character", "ke\ty": "control character",
	} {
		problem := CredentialProblem([]byte(value))
		if says == "" {
			require.Empty(t, problem, "%q", value)
			continue
		}
		require.Contains(t, problem, says, "%q", value)
		require.NotContains(t, problem, "AKIA")
	}
}
