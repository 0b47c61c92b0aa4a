package restorejob

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flipRow()
	code := m.Run()
	stopPlatform()
	os.Exit(code)
}
