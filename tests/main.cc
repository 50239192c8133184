// Has Catch2 2 make its main function here. Version 3 brings it along.
#define CATCH_CONFIG_MAIN
#include "tests/support/catch.h"
