// The compiled adjoint engine: include this.
#pragma once
#include "cpu.hpp"
#include "join.hpp"
#include "riot.hpp"
#include "sweep.hpp"
#include "tia.hpp"
