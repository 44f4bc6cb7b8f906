package main

import (
	"fmt"
	"io"
	"net/http"
	"os"

	"example.com/tiny"
)

func main() {
	fmt.Println(tiny.Word())
	answer, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 200 {
		fmt.Println(answer.Status, string(body), err)
		os.Exit(1)
	}
	fmt.Print(string(body))
}
