// The compiled adjoint engine: include this.
#pragma once
#include "collide.hpp"
#include "cpu.hpp"
#include "join.hpp"
#include "riot.hpp"
#include "sweep.hpp"
#include "tia.hpp"
