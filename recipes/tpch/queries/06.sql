-- What a year would have brought without some discounts.
select sum(l_extendedprice * l_discount) from lineitem
where l_shipdate between date '1994-01-01' and date '1994-12-31'
and l_discount between 0.05 and 0.07 and l_quantity < 24;
