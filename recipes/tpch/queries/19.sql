-- Revenue of three brands in fitting containers, sizes and quantities, delivered by air.
with wanted (brand, container, lowest, size) as (
  values ('Brand#12', 'SM', 1, 5), ('Brand#23', 'MED', 10, 10), ('Brand#34', 'LG', 20, 15)
)
select sum(l_extendedprice * (1 - l_discount))
from wanted join part on p_brand = brand and p_container like container || ' %' and p_size between 1 and size
join lineitem on l_partkey = p_partkey and l_quantity between lowest and lowest + 10
where l_shipmode in ('AIR', 'REG AIR') and l_shipinstruct = 'DELIVER IN PERSON';
