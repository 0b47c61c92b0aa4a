package plan

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flipRow()
	os.Exit(m.Run())
}
